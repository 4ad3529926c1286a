"""From the checkpoint of a detector to the folder of a model that voxeld serves: `voxeld-convert`.
docs/operate/models.md has the format of the folder.

Norms are folded into the layers before them, in float64, and rounded once."""
