// kafka-go: produce, consume, groups and topics. It has neither idempotence nor transactions.
package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/scram"

	"peers/task"
)

var codecs = map[string]kafka.Compression{
	"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
}

func main() {
	t := task.Read()
	map[string]func(context.Context, *task.Task){
		"produce": produce, "consume": consume, "group": group, "admin": admin,
	}[t.Do](context.Background(), t)
}

func mechanism(t *task.Task) sasl.Mechanism {
	if t.User == "" {
		return nil
	}
	made, err := scram.Mechanism(scram.SHA256, t.User, t.Password)
	task.Check(err)
	return made
}

func produce(ctx context.Context, t *task.Task) {
	w := &kafka.Writer{Addr: kafka.TCP(t.Servers), Topic: t.Topic, Compression: codecs[t.Codec], RequiredAcks: kafka.RequireAll,
		BatchBytes: 8 << 20, BatchTimeout: 10 * time.Millisecond, Balancer: &kafka.Murmur2Balancer{},
		Transport: &kafka.Transport{TLS: t.TLS(), SASL: mechanism(t)}}
	messages := make([]kafka.Message, 0, t.Count)
	for number := t.First; number < t.First+t.Count; number++ {
		key, value := t.Record(number)
		header := kafka.Header{Key: "writer", Value: []byte("kafkago")}
		messages = append(messages, kafka.Message{Key: key, Value: value, Headers: []kafka.Header{header}})
	}
	task.Check(w.WriteMessages(ctx, messages...))
	task.Check(w.Close())
}

func show(m kafka.Message) {
	header := ""
	if len(m.Headers) > 0 {
		header = string(m.Headers[0].Value)
	}
	task.Print(m.Partition, m.Offset, m.Key, m.Value, header)
}

func reader(t *task.Task, partition int, group string) *kafka.Reader {
	dialer := &kafka.Dialer{DualStack: true, TLS: t.TLS(), SASLMechanism: mechanism(t)}
	return kafka.NewReader(kafka.ReaderConfig{Brokers: []string{t.Servers}, Topic: t.Topic, Partition: partition, GroupID: group,
		Dialer: dialer, MaxBytes: 16 << 20, MaxWait: 100 * time.Millisecond, StartOffset: kafka.FirstOffset,
		IsolationLevel: kafka.ReadCommitted, SessionTimeout: 6 * time.Second, HeartbeatInterval: time.Second})
}

func consume(ctx context.Context, t *task.Task) {
	all := make(chan kafka.Message)
	for partition := range t.Partitions {
		one := reader(t, partition, "")
		go func() {
			for {
				message, err := one.ReadMessage(ctx)
				task.Check(err)
				all <- message
			}
		}()
	}
	for seen := 0; seen < t.Count; seen++ {
		show(<-all)
	}
}

func group(ctx context.Context, t *task.Task) {
	r := reader(t, 0, t.Group)
	var once sync.Once
	for {
		message, err := r.FetchMessage(ctx)
		task.Check(err)
		once.Do(func() { task.Say("assigned") }) // it does not report an assignment
		task.Check(r.CommitMessages(ctx, message))
		show(message)
	}
}

func admin(ctx context.Context, t *task.Task) {
	c := &kafka.Client{Addr: kafka.TCP(t.Servers), Transport: &kafka.Transport{TLS: t.TLS(), SASL: mechanism(t)}}
	wanted := kafka.TopicConfig{Topic: t.Topic, NumPartitions: t.Partitions, ReplicationFactor: 1,
		ConfigEntries: []kafka.ConfigEntry{{ConfigName: "retention.ms", ConfigValue: "3600000"}}}
	created, err := c.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{wanted}})
	task.Check(err)
	task.Check(created.Errors[t.Topic])
	again, err := c.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{wanted}})
	task.Check(err)
	if !errors.Is(again.Errors[t.Topic], kafka.TopicAlreadyExists) {
		task.Check(fmt.Errorf("a second topic of the same name: %v", again.Errors[t.Topic]))
	}
	metadata, err := c.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{t.Topic}})
	task.Check(err)
	task.Say(fmt.Sprintf("partitions %d", len(metadata.Topics[0].Partitions)))
	described, err := c.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{
		{ResourceType: kafka.ResourceTypeTopic, ResourceName: t.Topic, ConfigNames: []string{"retention.ms"}}}})
	task.Check(err)
	task.Say("retention " + described.Resources[0].ConfigEntries[0].ConfigValue)
	deleted, err := c.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{t.Topic}})
	task.Check(err)
	task.Check(deleted.Errors[t.Topic])
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		metadata, err := c.Metadata(ctx, &kafka.MetadataRequest{})
		task.Check(err)
		if !listed(metadata, t.Topic) {
			task.Say("deleted")
			return
		}
	}
}

func listed(metadata *kafka.MetadataResponse, name string) bool {
	for _, topic := range metadata.Topics {
		if topic.Name == name {
			return true
		}
	}
	return false
}
