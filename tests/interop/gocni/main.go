// gocni attaches a network namespace as containerd does it: with containerd's own library, to the first
// network of a directory. What the network is asked for is a JSON object on stdin, by capability; the
// result is printed as JSON.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/containerd/go-cni"
)

// options hands the library its own types: these, and not what came in, are what plugins get to read.
// A null is handed on, as containerd has done it for a pod without ports.
func options(asked map[string]json.RawMessage) (made []cni.NamespaceOpts, err error) {
	for capability, value := range asked {
		switch capability {
		case "portMappings":
			var mappings []cni.PortMapping
			err = errors.Join(err, json.Unmarshal(value, &mappings))
			made = append(made, cni.WithCapabilityPortMap(mappings))
		case "bandwidth":
			var limits cni.BandWidth
			err = errors.Join(err, json.Unmarshal(value, &limits))
			made = append(made, cni.WithCapabilityBandWidth(limits))
		case "dns":
			var dns cni.DNS
			err = errors.Join(err, json.Unmarshal(value, &dns))
			made = append(made, cni.WithCapabilityDNS(dns))
		default:
			err = errors.Join(err, fmt.Errorf("unknown capability %q", capability))
		}
	}
	return made, err
}

func run(verb, directory, id, netns string) error {
	var asked map[string]json.RawMessage
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		return err
	}
	wishes, err := options(asked)
	if err != nil {
		return err
	}
	library, err := cni.New(
		cni.WithPluginDir(filepath.SplitList(os.Getenv("CNI_PATH"))),
		cni.WithPluginConfDir(directory),
		cni.WithDefaultConf,
	)
	if err != nil {
		return err
	}
	ctx := context.Background()
	switch verb {
	case "setup":
		result, err := library.Setup(ctx, id, netns, wishes...)
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(result.Raw()[0])
	case "check":
		return library.Check(ctx, id, netns, wishes...)
	case "remove":
		return library.Remove(ctx, id, netns, wishes...)
	}
	return fmt.Errorf("unknown verb %q", verb)
}

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: gocni setup|check|remove DIRECTORY ID NETNS")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
