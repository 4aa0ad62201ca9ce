"""Where does a browser find Plotly's script?

A module of its own: Streamlit runs the dashboard's script again at every change, which would forget it.
"""

ADDRESS = ""
"""Relative to every page; empty where no server of ours gives it (`serve`), so that sessions send it."""
