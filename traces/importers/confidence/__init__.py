"""Which recorded passes of masked decoders can be read?"""
