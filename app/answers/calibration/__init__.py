"""What does `calibrate` answer? How far a profile is from tables, this machine, or a server."""
