"""The state of this machine: what is installed, what runs here, and how noisy the machine is."""
