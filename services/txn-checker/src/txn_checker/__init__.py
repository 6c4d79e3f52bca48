"""The txn-checker: knows which half messages are undecided, has their producers asked, and gives up at last. Decides none itself."""
