"""How is a command or a file shown to be copied?

Plain text with a button. Streamlit's own code element loads 1.6 MB of highlighting, of which ours
uses none, and the headline would wait for it.
"""

import html

import streamlit as st


def code_block(text: str) -> None:
    """Draw a text as it is, with a button that copies it (`chart_component.js`).

    Args:
        text: of a command line or a file.
    """
    st.html(
        f'<div class="rooftree-code"><pre><code>{html.escape(text)}</code></pre>'
        '<button type="button">Copy</button></div>'
    )
