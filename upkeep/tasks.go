package upkeep

import (
	"smelt/gold"
	"smelt/silver"
)

// Tasks are all upkeep tasks of a pipeline.
func Tasks(cfg Config) []Task {
	p := cfg.Pipeline
	tasks := append(bronzeTasks(cfg, newMerger(cfg)), Retention(cfg)...)
	add := func(name, lock string) {
		tasks = append(tasks,
			expiry(cfg, name, lock),
			compaction(cfg, name, lock),
			manifests(cfg, name, lock),
			orphans(cfg, name, lock),
		)
	}
	own := silver.TableName(p.Name)
	add(own, own)
	add(silver.QuarantineName(p.Name), own) // they are committed together
	for _, m := range p.Gold {
		name := gold.TableName(p.Name, m.Name)
		add(name, name)
	}
	return tasks
}
