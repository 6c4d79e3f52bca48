"""Request-reply: a reply is pushed to the client that asked, then kept in the cluster's reply topic."""
