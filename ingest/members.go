package ingest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// clientID is the name under which Kafka knows an instance.
func clientID(instance string) string { return clientPrefix + instance }

const clientPrefix = "smelt-"

// Member is an instance that shares a topic's partitions with others.
type Member struct {
	Instance   string  // see smelt.Instance
	Host       string  // where the broker sees it
	Partitions []int32 // assigned to it, in order; none during a rebalance
}

// Members asks who is in a group, and which partitions of a topic each of them has.
// A group that there is not has no members.
func Members(ctx context.Context, cluster Cluster, group, topic string) ([]Member, error) {
	client, _, err := cluster.dial(ctx, topic, nil)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	groups, err := kadm.NewClient(client).DescribeGroups(ctx, group)
	if err == nil {
		err = groups.Error()
	}
	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("describe group %s: %w", group, cluster.explain(topic, err))
	}
	var members []Member
	for _, m := range groups[group].Members {
		member := Member{Instance: strings.TrimPrefix(m.ClientID, clientPrefix), Host: host(m.ClientHost)}
		if assigned, ok := m.Assigned.AsConsumer(); ok {
			for _, t := range assigned.Topics {
				if t.Topic == topic {
					member.Partitions = slices.Sorted(slices.Values(t.Partitions))
				}
			}
		}
		members = append(members, member)
	}
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.Instance, b.Instance) })
	return members, nil
}

// host is the address of a client as brokers write it: "/10.0.0.3", or with a port.
func host(client string) string {
	if h, _, err := net.SplitHostPort(client); err == nil {
		return h
	}
	return strings.TrimPrefix(client, "/")
}
