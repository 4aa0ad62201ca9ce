"""Which chains, trees and early stops compete: static, dynamic, and of candidates and prompt
tokens?
"""
