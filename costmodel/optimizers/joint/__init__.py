"""Which method, draft, batch cap, token budget, layout, formats and devices together serve a load
best?
"""
