"""Reading text in images: a pipeline over three networks, each of them a model of lazyd."""
