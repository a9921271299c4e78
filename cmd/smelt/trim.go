package main

import (
	"context"
	"log/slog"
	"path/filepath"

	"smelt"
	"smelt/bronze"
	"smelt/ingest"
)

// trimmers delete from Kafka what the lake has, a stage a topic, where that is asked
// for.
func (s *settings) trimmers(pipelines []*smelt.Pipeline, objects smelt.Store, log *slog.Logger) ([]smelt.Stage, error) {
	if !s.trims() {
		return nil, nil
	}
	cluster, err := s.cluster()
	if err != nil {
		return nil, err
	}
	var stages []smelt.Stage
	names := map[string][]string{} // of the pipelines, by topic
	for _, p := range pipelines {
		if names[p.Topic] == nil {
			stages = append(stages, ingest.NewTrimmer(ingest.TrimConfig{
				Cluster: cluster, Topic: p.Topic, Log: log,
				Have: func(ctx context.Context, describe ingest.Describe) (map[int32]int64, error) {
					return inLake(ctx, objects, names[p.Topic], describe)
				},
			}))
		}
		names[p.Topic] = append(names[p.Topic], p.Name)
	}
	return stages, nil
}

// trims says whether to delete records from Kafka. The embedded stack's setting holds for its own broker only, not for one that the user
// has set since.
func (s *settings) trims() bool {
	from := func(flag string) string { return filepath.Base(s.origins[flag].Name) }
	return s.KafkaTrim && (from("kafka-trim") != stackFile || from("kafka-brokers") == stackFile && !s.explicit["kafka-brokers"])
}

// inLake returns the offset up to which every one of some pipelines has the partitions of their topic. It leaves out a partition that one
// of them lacks, or has from another topic, cluster or lost end of the log.
func inLake(ctx context.Context, objects smelt.Store, pipelines []string, describe ingest.Describe) (map[int32]int64, error) {
	have, lacking := map[int32]int64{}, map[int32]bool{}
	for _, name := range pipelines {
		ends, err := bronze.NewReader(objects, name).Ends(ctx)
		if err != nil {
			return nil, err
		}
		topic, err := describe(ctx, bronze.Epochs(ends))
		if err != nil {
			return nil, err
		}
		for _, stop := range bronze.Stops(name, ends, topic) {
			lacking[stop.Partition] = true
		}
		for id := range topic.Partitions {
			end, ok := ends[id]
			if !ok || end.Cluster != topic.Cluster || end.Topic != topic.Topic {
				lacking[id] = true
				continue
			}
			next := end.End - end.Base
			if least, ok := have[id]; !ok || next < least {
				have[id] = next
			}
		}
	}
	for id := range lacking {
		delete(have, id)
	}
	return have, nil
}
