package maintain

// The tasks, one by one, and what they are made of.
var (
	Compaction  = compaction
	Orphans     = orphans
	Manifests   = manifests
	CheckFields = checkFields
	Batches     = batches
)
