"""A store's directory as files: what it holds, where its log ends, a snapshot that keeps it readable. Never writes in a store and knows no Spark."""
