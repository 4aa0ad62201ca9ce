"""What a pass and a step cost on a device, and which configuration is best."""
