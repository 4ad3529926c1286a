"""The wheel's tag: the program needs no Python of a certain version, but its platform. packaging/wheels sets what
stands between @."""

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel


class OfPlatform(Distribution):
    def has_ext_modules(self):
        return True


class Wheel(bdist_wheel):
    def get_tag(self):
        return "py3", "none", "@PLATFORM@"


setup(distclass=OfPlatform, cmdclass={"bdist_wheel": Wheel})
