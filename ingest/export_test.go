package ingest

// ProduceWithin is Produce with a time of its own in which something has to be
// acknowledged.
var ProduceWithin = produce
