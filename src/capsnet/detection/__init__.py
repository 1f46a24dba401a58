"""Noticing pictures of none of the classes: measures of how foreign a picture is, and calibrated rules.

Everything here is NumPy, so that a server with exported files alone decides as torch does.
"""
