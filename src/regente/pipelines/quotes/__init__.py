"""Quotes: what a thing costs, found out in steps of which the dear ones are paid for once.

A description is analysed; a vehicle is looked up in the FIPE table, anything else is searched for
in shops and priced product by product. The engine keeps every checkpoint; here is only what quotes
are about.
"""
