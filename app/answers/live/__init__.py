"""What did a live server do? Its own counters, and what users of a load saw."""
