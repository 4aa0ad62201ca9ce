"""Discrete-event serving simulation; the closed-form estimates of `costmodel` need nothing from
here.
"""
