"""The fixture that tests of services share with those of blocks."""

from support.subjects import make as make
