// kafka-go's connections, many at once: each writes a record, reads it back, and waits for its next turn.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"peers/task"
)

// Outcome is what tests/peers/test_many_connections.py expects.
type Outcome struct {
	Written    int     `json:"written"`
	WriteP50   float64 `json:"write_p50_ms"`
	WriteP99   float64 `json:"write_p99_ms"`
	ReadP50    float64 `json:"read_p50_ms"`
	ReadP99    float64 `json:"read_p99_ms"`
	Longest    float64 `json:"longest_ms"`
	Unreadable int     `json:"unreadable"`
}

type latencies struct {
	lock        sync.Mutex
	write, read []float64
	unreadable  int
}

func main() {
	t := task.Read()
	all := &latencies{}
	end := time.Now().Add(time.Duration(t.Seconds) * time.Second)
	pause := time.Duration(t.Pause * float64(time.Second))
	var running sync.WaitGroup
	dialing := make(chan struct{}, 20)
	for number := range t.Count {
		running.Add(1)
		go func() {
			defer running.Done()
			dialing <- struct{}{}
			c, err := kafka.DialLeader(context.Background(), "tcp", t.Servers, t.Topic, number%t.Partitions)
			<-dialing
			task.Check(err)
			work(t, c, number, end, pause, all)
			task.Check(c.Close())
		}()
	}
	running.Wait()
	task.Check(json.NewEncoder(os.Stdout).Encode(all.outcome()))
}

func work(t *task.Task, c *kafka.Conn, number int, end time.Time, pause time.Duration, all *latencies) {
	time.Sleep(pause * time.Duration(number) / time.Duration(t.Count)) // spread over one pause
	for turn := 0; time.Now().Before(end); turn++ {
		began := time.Now()
		once(c, fmt.Sprintf("%d-%d", number, turn), all)
		time.Sleep(pause - time.Since(began))
	}
}

func once(c *kafka.Conn, name string, all *latencies) {
	value := append([]byte(name), bytes.Repeat([]byte("."), 200)...)
	task.Check(c.SetDeadline(time.Now().Add(time.Minute)))
	began := time.Now()
	_, _, offset, _, err := c.WriteCompressedMessagesAt(nil, kafka.Message{Key: []byte(name), Value: value})
	task.Check(err)
	written := time.Now()
	_, err = c.Seek(offset, kafka.SeekAbsolute|kafka.SeekDontCheck)
	task.Check(err)
	message, err := c.ReadMessage(4096)
	task.Check(err)
	all.add(written.Sub(began), time.Since(written), bytes.Equal(message.Value, value))
}

func (l *latencies) add(write, read time.Duration, same bool) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.write = append(l.write, write.Seconds()*1000)
	l.read = append(l.read, read.Seconds()*1000)
	if !same {
		l.unreadable++
	}
}

func (l *latencies) outcome() Outcome {
	sort.Float64s(l.write)
	sort.Float64s(l.read)
	count := len(l.write)
	longest := max(l.write[count-1], l.read[count-1])
	return Outcome{count, l.write[count/2], l.write[count*99/100], l.read[count/2], l.read[count*99/100], longest, l.unreadable}
}
