// Package task reads what a peer is asked to do and writes what it has read: JSON on standard input and output.
package task

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
)

// Task is what tests/peers/peer.py sends.
type Task struct {
	Do           string   `json:"do"`
	Servers      string   `json:"servers"`
	Topic        string   `json:"topic"`
	Target       string   `json:"target"`
	Partitions   int      `json:"partitions"`
	First        int      `json:"first"`
	Count        int      `json:"count"`
	Size         int      `json:"size"`
	Prefix       string   `json:"prefix"`
	Codec        string   `json:"codec"`
	Group        string   `json:"group"`
	Transactions []string `json:"transactions"`
	ID           string   `json:"transactional_id"`
	Version      string   `json:"version"`
	Authority    string   `json:"authority"`
	User         string   `json:"user"`
	Password     string   `json:"password"`
	Seconds      int      `json:"seconds"`
	Pause        float64  `json:"pause"`
}

// Read takes the task from standard input.
func Read() *Task {
	var task Task
	Check(json.NewDecoder(os.Stdin).Decode(&task))
	return &task
}

// Check ends the program with the error.
func Check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Record returns key and value of the record with this number.
func (t *Task) Record(number int) ([]byte, []byte) {
	value := []byte(fmt.Sprintf("%s-%d", t.Prefix, number))
	if len(value) < t.Size {
		value = append(value, bytes.Repeat([]byte("."), t.Size-len(value))...)
	}
	return []byte(strconv.Itoa(number)), value
}

// TLS returns nil where the broker speaks plaintext.
func (t *Task) TLS() *tls.Config {
	if t.Authority == "" {
		return nil
	}
	pem, err := os.ReadFile(t.Authority)
	Check(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return &tls.Config{RootCAs: pool}
}

var output sync.Mutex

// Print writes one record: filling is cut off, the length is kept.
func Print(partition int, offset int64, key, value []byte, header string) {
	output.Lock()
	defer output.Unlock()
	Check(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"partition": partition,
		"offset":    offset,
		"key":       string(key),
		"value":     string(bytes.TrimRight(value, ".")),
		"size":      len(value),
		"writer":    header,
	}))
}

// Say writes one event, for example that a topic has been created.
func Say(event string) {
	output.Lock()
	defer output.Unlock()
	Check(json.NewEncoder(os.Stdout).Encode(map[string]string{"event": event}))
}
