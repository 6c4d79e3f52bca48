"""The HTTP form of messages: schemas, views, property names, filters. Pure; never calls a store."""
