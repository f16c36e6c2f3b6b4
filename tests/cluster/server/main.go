// An API server that serves custom resources and nothing else, for tests: Kubernetes' own list, watch and watch cache,
// without authentication, authorization and admission. It decides nothing itself; it only wires published libraries.
package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"

	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel/trace/noop"
	"k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiextensions-apiserver/pkg/cmd/server/options"
	definitions "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	genericserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run serves until SIGTERM or SIGINT, which PrepareRun's context stands for.
func run(arguments []string) error {
	opts, err := parse(arguments)
	if err != nil {
		return err
	}
	config, err := configure(opts)
	if err != nil {
		return err
	}
	server, err := config.Complete().New(genericserver.NewEmptyDelegate())
	if err != nil {
		return err
	}
	return server.GenericAPIServer.PrepareRun().RunWithContext(genericserver.SetupSignalContext())
}

// parse takes --etcd-servers, --etcd-prefix, --bind-address, --secure-port, --cert-dir and their siblings.
func parse(arguments []string) (*options.CustomResourceDefinitionsServerOptions, error) {
	opts := options.NewCustomResourceDefinitionsServerOptions(os.Stdout, os.Stderr)
	recommended := opts.RecommendedOptions
	recommended.Authentication = nil // these four ask a whole Kubernetes, and there is none
	recommended.Authorization = nil
	recommended.CoreAPI = nil
	recommended.Admission = nil
	recommended.Features.EnablePriorityAndFairness = false
	flags := pflag.NewFlagSet("server", pflag.ContinueOnError)
	recommended.Etcd.AddFlags(flags)
	recommended.SecureServing.AddFlags(flags)
	opts.ServerRunOptions.AddUniversalFlags(flags) // --feature-gates among them
	if err := flags.Parse(arguments); err != nil {
		return nil, err
	}
	if err := opts.ServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return nil, err
	}
	return opts, opts.Complete()
}

// configure fills in what RecommendedOptions would ask of the core API.
func configure(opts *options.CustomResourceDefinitionsServerOptions) (*apiserver.Config, error) {
	recommended := opts.RecommendedOptions
	loopback := []net.IP{net.IPv4(127, 0, 0, 1)}
	if err := recommended.SecureServing.MaybeDefaultWithSelfSignedCerts("localhost", nil, loopback); err != nil {
		return nil, err
	}
	generic := genericserver.NewRecommendedConfig(apiserver.Codecs)
	if err := opts.ServerRunOptions.ApplyTo(&generic.Config); err != nil {
		return nil, err
	}
	if err := recommended.ApplyTo(generic); err != nil {
		return nil, err
	}
	resources := apiserver.DefaultAPIResourceConfigSource()
	if err := opts.APIEnablement.ApplyTo(&generic.Config, resources, apiserver.Scheme); err != nil {
		return nil, err
	}
	clients, err := kubernetes.NewForConfig(generic.LoopbackClientConfig)
	if err != nil {
		return nil, err
	}
	generic.SharedInformerFactory = informers.NewSharedInformerFactory(clients, 0)
	namer := openapi.NewDefinitionNamer(apiserver.Scheme, scheme.Scheme)
	generic.OpenAPIConfig = genericserver.DefaultOpenAPIConfig(definitions.GetOpenAPIDefinitions, namer)
	generic.OpenAPIV3Config = genericserver.DefaultOpenAPIV3Config(definitions.GetOpenAPIDefinitions, namer)
	return &apiserver.Config{
		GenericConfig: generic,
		ExtraConfig: apiserver.ExtraConfig{
			CRDRESTOptionsGetter: options.NewCRDRESTOptionsGetter(
				*recommended.Etcd, generic.ResourceTransformers, generic.StorageObjectCountTracker),
			ServiceResolver: nowhere{},
			AuthResolverWrapper: webhook.NewDefaultAuthenticationInfoResolverWrapper(
				nil, nil, generic.LoopbackClientConfig, noop.NewTracerProvider()),
		},
	}, nil
}

// nowhere resolves no Service: no webhook converts the resources of a test.
type nowhere struct{}

func (nowhere) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	return nil, errors.New("there are no Services here")
}
