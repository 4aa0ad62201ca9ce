"""A page's first answer, readable before Streamlit's own page has loaded, which then takes its
place.
"""
