"""What should I run: the page's answer, and the devices that would do it for less."""
