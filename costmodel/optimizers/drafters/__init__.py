"""Which drafters compete, what is each called, and where is its acceptance known from?"""
