"""Models that read images: drafts that read less of them, and tokens of images left out."""
