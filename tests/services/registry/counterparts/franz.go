// franz-go's sr client against a registry: go run franz.go URL
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
)

func check(what string, err error) {
	if err != nil {
		fmt.Println(what, "failed:", err)
		os.Exit(1)
	}
	fmt.Println(what)
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := sr.NewClient(sr.URLs(os.Args[1]))
	check("a client", err)
	types, err := client.SupportedTypes(ctx)
	check(fmt.Sprint("types ", types), err)
	schemas := map[sr.SchemaType]string{
		sr.TypeAvro:     `{"type":"record","name":"Franz","fields":[{"name":"id","type":"int"}]}`,
		sr.TypeJSON:     `{"type":"object","properties":{"id":{"type":"integer"}}}`,
		sr.TypeProtobuf: `syntax = "proto3"; message Franz { int32 id = 1; }`,
	}
	for kind, text := range schemas {
		subject := "franz/" + kind.String()
		made, err := client.CreateSchema(ctx, subject, sr.Schema{Type: kind, Schema: text})
		check(fmt.Sprint("created ", kind, " ", made.ID), err)
		_, err = client.LookupSchema(ctx, subject, sr.Schema{Type: kind, Schema: text})
		check("looked up", err)
		_, err = client.SchemaByID(ctx, made.ID)
		check("by id", err)
		_, err = client.SchemaByVersion(ctx, subject, -1)
		check("latest", err)
		_, err = client.SchemaUsagesByID(ctx, made.ID)
		check("usages", err)
		_, err = client.SchemaVersionsByID(ctx, made.ID)
		check("versions by id", err)
		_, err = client.SubjectVersions(ctx, subject)
		check("versions", err)
		_, err = client.CheckCompatibility(ctx, subject, -1, sr.Schema{Type: kind, Schema: text})
		check("compatibility", err)
		for _, result := range client.SetCompatibility(ctx, sr.SetCompatibility{Level: sr.CompatFull}, subject) {
			check("set compatibility", result.Err)
		}
		for _, result := range client.Compatibility(ctx, subject, sr.GlobalSubject) {
			check("compatibility of "+result.Subject, result.Err)
		}
		for _, result := range client.SetMode(ctx, sr.ModeReadOnly, subject) {
			check("set mode", result.Err)
		}
		for _, result := range client.ResetMode(ctx, subject) {
			check("reset mode", result.Err)
		}
		for _, result := range client.ResetCompatibility(ctx, subject) {
			check("reset compatibility", result.Err)
		}
		check("deleted a version", client.DeleteSchema(ctx, subject, 1, sr.SoftDelete))
		check("deleted it for good", client.DeleteSchema(ctx, subject, 1, sr.HardDelete))
	}
	_, err = client.Subjects(sr.WithParams(ctx, sr.ShowDeleted))
	check("subjects", err)
	fmt.Println("franz-go is served")
}
