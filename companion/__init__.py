"""The studies behind the chapters: claims, experiments and figures of one paper, and its committed results."""
