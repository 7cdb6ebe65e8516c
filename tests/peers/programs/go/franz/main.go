// franz-go: produce, consume, groups, transactions and topics.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"peers/task"
)

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

func main() {
	t := task.Read()
	ctx := context.Background()
	map[string]func(context.Context, *task.Task){
		"produce": produce, "consume": consume, "group": group, "transact": transact, "transform": transform, "admin": admin,
	}[t.Do](ctx, t)
}

func client(t *task.Task, more ...kgo.Opt) *kgo.Client {
	options := append([]kgo.Opt{
		kgo.SeedBrokers(t.Servers), kgo.ProducerBatchMaxBytes(8 << 20),
		kgo.FetchMaxBytes(64 << 20), kgo.FetchMaxPartitionBytes(16 << 20),
	}, more...)
	if t.Codec != "" {
		options = append(options, kgo.ProducerBatchCompression(codecs[t.Codec]))
	}
	if t.Version != "" {
		options = append(options, kgo.MaxVersions(kversion.FromString(t.Version)))
	}
	if configured := t.TLS(); configured != nil {
		options = append(options, kgo.DialTLSConfig(configured))
	}
	if t.User != "" {
		options = append(options, kgo.SASL(scram.Auth{User: t.User, Pass: t.Password}.AsSha512Mechanism()))
	}
	created, err := kgo.NewClient(options...)
	task.Check(err)
	return created
}

func records(t *task.Task, topic string) []*kgo.Record {
	made := make([]*kgo.Record, 0, t.Count)
	for number := t.First; number < t.First+t.Count; number++ {
		key, value := t.Record(number)
		header := kgo.RecordHeader{Key: "writer", Value: []byte("franz")}
		made = append(made, &kgo.Record{Topic: topic, Key: key, Value: value, Headers: []kgo.RecordHeader{header}})
	}
	return made
}

func produce(ctx context.Context, t *task.Task) {
	c := client(t)
	defer c.Close()
	task.Check(c.ProduceSync(ctx, records(t, t.Topic)...).FirstErr())
}

func show(r *kgo.Record) {
	header := ""
	if len(r.Headers) > 0 {
		header = string(r.Headers[0].Value)
	}
	task.Print(int(r.Partition), r.Offset, r.Key, r.Value, header)
}

func poll(ctx context.Context, c *kgo.Client) []*kgo.Record {
	fetches := c.PollFetches(ctx)
	fetches.EachError(func(topic string, _ int32, err error) { task.Check(fmt.Errorf("%s: %w", topic, err)) })
	return fetches.Records()
}

func consume(ctx context.Context, t *task.Task) {
	c := client(t, kgo.ConsumeTopics(t.Topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	defer c.Close()
	for seen := 0; seen < t.Count; {
		for _, r := range poll(ctx, c) {
			show(r)
			seen++
		}
	}
}

func group(ctx context.Context, t *task.Task) {
	c := client(t, kgo.ConsumeTopics(t.Topic), kgo.ConsumerGroup(t.Group), kgo.SessionTimeout(6*time.Second), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) { task.Say("assigned") }))
	defer c.Close()
	for {
		for _, r := range poll(ctx, c) {
			task.Check(c.CommitRecords(ctx, r))
			show(r)
		}
	}
}

func transact(ctx context.Context, t *task.Task) {
	c := client(t, kgo.TransactionalID(t.ID))
	defer c.Close()
	for _, outcome := range t.Transactions {
		task.Check(c.BeginTransaction())
		task.Check(c.ProduceSync(ctx, records(t, t.Topic)...).FirstErr())
		task.Check(c.EndTransaction(ctx, kgo.TransactionEndTry(outcome == "commit")))
		t.First += t.Count
	}
}

// The transaction of a killed instance ends with its timeout: the new one waits for stable offsets before it writes.
func transform(ctx context.Context, t *task.Task) {
	options := []kgo.Opt{kgo.SeedBrokers(t.Servers), kgo.TransactionalID(t.ID), kgo.ConsumerGroup(t.Group), kgo.SessionTimeout(6 * time.Second),
		kgo.ConsumeTopics(t.Topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.RequireStableFetchOffsets(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.TransactionTimeout(6 * time.Second)}
	session, err := kgo.NewGroupTransactSession(options...)
	task.Check(err)
	defer session.Close()
	for {
		fetches := session.PollRecords(ctx, 5)
		task.Check(session.Begin())
		fetches.EachRecord(func(r *kgo.Record) {
			session.Produce(ctx, &kgo.Record{Topic: t.Target, Key: r.Key, Value: r.Value, Headers: r.Headers}, nil)
		})
		committed, err := session.End(ctx, kgo.TryCommit)
		task.Check(err)
		task.Say(fmt.Sprintf("committed %v", committed))
	}
}

func admin(ctx context.Context, t *task.Task) {
	c := kadm.NewClient(client(t))
	defer c.Close()
	name := t.Topic
	created, err := c.CreateTopic(ctx, int32(t.Partitions), 1, map[string]*string{"retention.ms": kadm.StringPtr("3600000")}, name)
	task.Check(err)
	task.Check(created.Err)
	_, err = c.CreateTopic(ctx, 1, 1, nil, name)
	if !errors.Is(err, kerr.TopicAlreadyExists) {
		task.Check(fmt.Errorf("a second topic of the same name: %v", err))
	}
	details, err := c.ListTopics(ctx, name)
	task.Check(err)
	task.Say(fmt.Sprintf("partitions %d", len(details[name].Partitions)))
	described, err := c.DescribeTopicConfigs(ctx, name)
	task.Check(err)
	for _, entry := range described[0].Configs {
		if entry.Key == "retention.ms" {
			task.Say("retention " + *entry.Value)
		}
	}
	deleted, err := c.DeleteTopic(ctx, name)
	task.Check(err)
	task.Check(deleted.Err)
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		names, err := c.ListTopics(ctx)
		task.Check(err)
		if !strings.Contains(strings.Join(names.Names(), " "), name) {
			task.Say("deleted")
			return
		}
	}
}
