"""Several replicas: routing, disaggregation and the clock that they share."""
