"""The version of this package and of the service in the same repository."""

VERSION = "0.1.0"
