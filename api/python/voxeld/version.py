"""The version of this package: that of the service whose repository it comes from."""

VERSION = "0.1.0"
