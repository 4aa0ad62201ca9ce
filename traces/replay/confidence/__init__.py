"""Replay of confidence traces: what would other commit rules, blocks and thresholds do?"""
