"""Make the figures of these documents, and the numbers of docs/walkthrough.md, from the demo model."""
