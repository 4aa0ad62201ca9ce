"""What do serving engines log and count about acceptance?"""
