"""From the checkpoint of a detector to the folder of a model that voxeld serves: `voxeld-convert`.

A model's folder has encoder.safetensors, the linear layers of the pillar encoder, or backbone.safetensors, the sparse
convolutions; network.onnx, the dense backbone and the head; and model.json, the parameters of voxelization and
decoding, and the names of the network's tensors.

Norms are folded into the layers before them, in float64, and rounded once."""
