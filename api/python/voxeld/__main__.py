"""`python -m voxeld` is voxeld-client."""

import sys

from .cli.main import main

sys.exit(main())
