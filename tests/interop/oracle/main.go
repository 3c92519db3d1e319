// The oracle answers what Go's libcni makes of an input, one JSON object a line, so that
// tests can hold netloom's answer beside it.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/types/create"
)

type question struct {
	Ask   string `json:"ask"`
	Input []byte `json:"input"`
	To    string `json:"to"`
}

type answer struct {
	Output []byte      `json:"output,omitempty"`
	Error  string      `json:"error,omitempty"`
	Code   uint        `json:"code,omitempty"`
	List   *parsedList `json:"list,omitempty"`
}

type parsedList struct {
	Name         string   `json:"name"`
	CNIVersion   string   `json:"cniVersion"`
	DisableCheck bool     `json:"disableCheck"`
	DisableGC    bool     `json:"disableGC"`
	Inlined      bool     `json:"loadOnlyInlinedPlugins"`
	Plugins      [][]byte `json:"plugins"`
}

// convert decodes a result and prints it in another version, as a runtime does with its cache.
func convert(q question) (answer, error) {
	result, err := create.CreateFromBytes(q.Input)
	if err != nil {
		return answer{}, err
	}
	converted, err := result.GetAsVersion(q.To)
	if err != nil {
		return answer{}, err
	}
	var out bytes.Buffer
	if err := converted.PrintTo(&out); err != nil {
		return answer{}, err
	}
	return answer{Output: out.Bytes()}, nil
}

func parse(q question) (answer, error) {
	list, err := libcni.NetworkConfFromBytes(q.Input)
	if err != nil {
		return answer{}, err
	}
	parsed := &parsedList{
		Name: list.Name, CNIVersion: list.CNIVersion, DisableCheck: list.DisableCheck,
		DisableGC: list.DisableGC, Inlined: list.LoadOnlyInlinedPlugins,
	}
	for _, plugin := range list.Plugins {
		parsed.Plugins = append(parsed.Plugins, plugin.Bytes)
	}
	return answer{List: parsed}, nil
}

// status asks the plugins of a list, as a runtime does; a plugin's error keeps its code.
func status(q question) (answer, error) {
	list, err := libcni.NetworkConfFromBytes(q.Input)
	if err != nil {
		return answer{}, err
	}
	err = libcni.NewCNIConfig(filepath.SplitList(q.To), nil).GetStatusNetworkList(context.Background(), list)
	var said *types.Error
	if errors.As(err, &said) {
		return answer{Error: said.Msg, Code: said.Code}, nil
	}
	return answer{}, err
}

func ask(line []byte) (a answer) {
	// libcni dereferences nil on a few inputs; that is an answer too.
	defer func() {
		if r := recover(); r != nil {
			a = answer{Error: fmt.Sprintf("panic: %v", r)}
		}
	}()
	var q question
	err := json.Unmarshal(line, &q)
	if err == nil {
		switch q.Ask {
		case "convert":
			a, err = convert(q)
		case "parse":
			a, err = parse(q)
		case "status":
			a, err = status(q)
		default:
			err = fmt.Errorf("unknown question %q", q.Ask)
		}
	}
	if err != nil {
		return answer{Error: err.Error()}
	}
	return a
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 0, 1<<20), 64<<20)
	out := json.NewEncoder(os.Stdout)
	for in.Scan() {
		if err := out.Encode(ask(in.Bytes())); err != nil {
			os.Exit(1)
		}
	}
}
