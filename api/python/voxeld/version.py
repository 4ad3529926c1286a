"""The version of this package, which is the version of the service in the same repository."""

VERSION = "0.1.0"
