"""What the plugins of OpenVINO share."""
