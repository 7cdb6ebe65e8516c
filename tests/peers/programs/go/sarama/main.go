// sarama: produce, consume, groups, transactions and topics.
package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"peers/task"
)

var codecs = map[string]sarama.CompressionCodec{
	"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
	"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

func main() {
	t := task.Read()
	map[string]func(*task.Task){
		"produce": produce, "consume": consume, "group": group, "transact": transact, "transform": transform, "admin": admin,
	}[t.Do](t)
}

func config(t *task.Task) *sarama.Config {
	c := sarama.NewConfig()
	c.Version = sarama.MaxVersion
	if t.Version != "" {
		parsed, err := sarama.ParseKafkaVersion(t.Version)
		task.Check(err)
		c.Version = parsed
	}
	c.Producer.Return.Successes = true
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Producer.Idempotent = true
	c.Net.MaxOpenRequests = 1
	c.Producer.MaxMessageBytes = 8 << 20
	c.Producer.Compression = codecs[t.Codec]
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Fetch.Default = 16 << 20
	c.Consumer.IsolationLevel = sarama.ReadCommitted
	c.Consumer.MaxWaitTime = 10 * time.Millisecond // commits wait behind fetches: both use one connection
	if configured := t.TLS(); configured != nil {
		c.Net.TLS.Enable, c.Net.TLS.Config = true, configured
	}
	if t.User != "" {
		c.Net.SASL.Enable, c.Net.SASL.Handshake = true, true
		c.Net.SASL.User, c.Net.SASL.Password, c.Net.SASL.Mechanism = t.User, t.Password, sarama.SASLTypePlaintext
	}
	return c
}

func producer(t *task.Task, c *sarama.Config) sarama.SyncProducer {
	made, err := sarama.NewSyncProducer([]string{t.Servers}, c)
	task.Check(err)
	return made
}

func records(t *task.Task) []*sarama.ProducerMessage {
	made := make([]*sarama.ProducerMessage, 0, t.Count)
	for number := t.First; number < t.First+t.Count; number++ {
		key, value := t.Record(number)
		made = append(made, record(t.Topic, key, value))
	}
	return made
}

func record(topic string, key, value []byte) *sarama.ProducerMessage {
	return &sarama.ProducerMessage{Topic: topic, Key: sarama.ByteEncoder(key), Value: sarama.ByteEncoder(value),
		Headers: []sarama.RecordHeader{{Key: []byte("writer"), Value: []byte("sarama")}}}
}

func produce(t *task.Task) {
	p := producer(t, config(t))
	task.Check(p.SendMessages(records(t)))
	task.Check(p.Close())
}

func show(m *sarama.ConsumerMessage) {
	header := ""
	if len(m.Headers) > 0 {
		header = string(m.Headers[0].Value)
	}
	task.Print(int(m.Partition), m.Offset, m.Key, m.Value, header)
}

func consume(t *task.Task) {
	c, err := sarama.NewConsumer([]string{t.Servers}, config(t))
	task.Check(err)
	partitions, err := c.Partitions(t.Topic)
	task.Check(err)
	all := make(chan *sarama.ConsumerMessage)
	for _, partition := range partitions {
		one, err := c.ConsumePartition(t.Topic, partition, sarama.OffsetOldest)
		task.Check(err)
		go func() {
			for message := range one.Messages() {
				all <- message
			}
		}()
	}
	for seen := 0; seen < t.Count; seen++ {
		show(<-all)
	}
}

type member struct{}

func (member) Setup(sarama.ConsumerGroupSession) error   { task.Say("assigned"); return nil }
func (member) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (member) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			s.MarkMessage(message, "")
			s.Commit()
			show(message)
		case <-s.Context().Done():
			return nil
		}
	}
}

func group(t *task.Task) { join(t, member{}) }

func join(t *task.Task, handler sarama.ConsumerGroupHandler) {
	c := config(t)
	c.Consumer.Offsets.AutoCommit.Enable = false
	c.Consumer.Group.Session.Timeout = 6 * time.Second
	c.Consumer.Group.Heartbeat.Interval = time.Second
	g, err := sarama.NewConsumerGroup([]string{t.Servers}, t.Group, c)
	task.Check(err)
	for {
		task.Check(g.Consume(context.Background(), []string{t.Topic}, handler))
	}
}

func transactional(t *task.Task) sarama.SyncProducer {
	c := config(t)
	c.Producer.Transaction.ID = t.ID
	return producer(t, c)
}

func transact(t *task.Task) {
	p := transactional(t)
	for _, outcome := range t.Transactions {
		task.Check(p.BeginTxn())
		task.Check(p.SendMessages(records(t)))
		if outcome == "commit" {
			task.Check(p.CommitTxn())
		} else {
			task.Check(p.AbortTxn())
		}
		t.First += t.Count
	}
	task.Check(p.Close())
}

type transformer struct {
	member
	task     *task.Task
	producer sarama.SyncProducer
	turn     *sync.Mutex // partitions are claimed side by side, a producer has one transaction
}

func (h transformer) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case m, open := <-claim.Messages():
			if !open {
				return nil
			}
			h.transform(m)
		case <-s.Context().Done():
			return nil
		}
	}
}

func (h transformer) transform(m *sarama.ConsumerMessage) {
	h.turn.Lock()
	defer h.turn.Unlock()
	task.Check(h.producer.BeginTxn())
	task.Check(h.producer.SendMessages([]*sarama.ProducerMessage{record(h.task.Target, m.Key, m.Value)}))
	task.Check(h.producer.AddMessageToTxn(m, h.task.Group, nil))
	task.Check(h.producer.CommitTxn())
	task.Say("committed true")
}

func transform(t *task.Task) {
	join(t, transformer{task: t, producer: transactional(t), turn: &sync.Mutex{}})
}

func admin(t *task.Task) {
	c, err := sarama.NewClusterAdmin([]string{t.Servers}, config(t))
	task.Check(err)
	hour := "3600000"
	detail := &sarama.TopicDetail{NumPartitions: int32(t.Partitions), ReplicationFactor: 1, ConfigEntries: map[string]*string{"retention.ms": &hour}}
	task.Check(c.CreateTopic(t.Topic, detail, false))
	if err := c.CreateTopic(t.Topic, detail, false); !errors.Is(err, sarama.ErrTopicAlreadyExists) {
		task.Check(fmt.Errorf("a second topic of the same name: %v", err))
	}
	topics, err := c.ListTopics()
	task.Check(err)
	task.Say(fmt.Sprintf("partitions %d", topics[t.Topic].NumPartitions))
	entries, err := c.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: t.Topic, ConfigNames: []string{"retention.ms"}})
	task.Check(err)
	task.Say("retention " + entries[0].Value)
	task.Check(c.DeleteTopic(t.Topic))
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		topics, err := c.ListTopics()
		task.Check(err)
		if _, there := topics[t.Topic]; !there {
			task.Say("deleted")
			return
		}
	}
}
