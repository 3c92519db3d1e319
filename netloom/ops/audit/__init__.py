"""Compares journal, pools and kernel, and says where they disagree. Reads only."""
