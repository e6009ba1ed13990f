"""Imported before Keras by a process that imports packages ahead: the settings that models of TensorFlow make first."""

from bench.tasks import tf_models

tf_models.configure()
