"""Code that the plugins of OpenVINO share."""
