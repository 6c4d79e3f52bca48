"""The form of a message in HTTP: schemas, views, property names, filters. Pure; never asks a store."""
