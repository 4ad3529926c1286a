"""The wheel's tag: any version of Python 3, one platform. packaging/wheels replaces each name between two @ by its
value."""

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel


class OfPlatform(Distribution):
    def has_ext_modules(self):
        return True


class Wheel(bdist_wheel):
    def get_tag(self):
        return "py3", "none", "@PLATFORM@"


setup(distclass=OfPlatform, cmdclass={"bdist_wheel": Wheel})
